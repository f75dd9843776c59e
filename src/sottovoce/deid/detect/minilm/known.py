"""Organisations and places that everybody knows, which public lists of made-up names lack."""

from collections.abc import Mapping, Sequence

from sottovoce.corpora.synthetic import lexicon
from sottovoce.deid.detect.crf.general_lexicon import faker_lists
from sottovoce.deid.detect.minilm.templates import choices

_COMPANIES = """Google|Apple|Microsoft|Amazon|Facebook|Twitter|YouTube|Netflix|Uber|IBM|Intel|Sony|
Samsung|Nokia|Dell|HP|Oracle|Cisco|Adobe|Toyota|Honda|Ford|General Motors|BMW|
Volkswagen|Tesla|Boeing|Airbus|Lufthansa|Delta|United Airlines|Southwest|
British Airways|Walmart|Target|Costco|McDonalds|McDonald's|Starbucks|Subway|
Burger King|KFC|Pizza Hut|Coca Cola|Pepsi|Nike|Adidas|Zara|H&M|Ikea|Tesco|Aldi|
Verizon|AT&T|Comcast|T-Mobile|Vodafone|Barclays|HSBC|Citibank|Chase|Wells Fargo|
Bank of America|Goldman Sachs|JPMorgan|Morgan Stanley|Deutsche Bank|Visa|PayPal|
Shell|BP|Exxon|Chevron|Enron|Pfizer|Novartis|Merck|Bayer|Siemens|Philips|
General Electric|Disney|Pixar|Warner Bros|Paramount|Fox News|CNN|BBC|NBC|CBS|ABC|
MTV|ESPN|HBO|Reuters|Xinhua|Interfax|Associated Press|The New York Times|
Washington Post|The Guardian|Wall Street Journal|Bloomberg|Forbes|Vogue|Spotify|
eBay|Etsy|Airbnb|LinkedIn|Instagram|Snapchat|WhatsApp|Tumblr|Reddit|Wikipedia|Yahoo|
AOL|FedEx|UPS|DHL|Best Buy|Home Depot|Macys|Sears|Walgreens|CVS|Kroger|Wendys|
Taco Bell|Dunkin Donuts|Marriott|Hilton|Blue Cross|Aetna|Kaiser Permanente|
Mayo Clinic|Red Cross|Greenpeace|Amnesty International"""
_BODIES = """United Nations|UN|U.N.|NATO|European Union|EU|World Bank|IMF|WHO|UNICEF|OPEC|FIFA|
UEFA|NASA|FBI|CIA|NSA|IRS|FDA|Congress|Senate|House of Commons|Parliament|
Supreme Court|Pentagon|White House|Kremlin|State Department|Treasury|
Federal Reserve|Bundesbank|Labour Party|Tories|Republican Party|Democratic Party|
GOP|Hamas|Hezbollah|Taliban|Fatah|Al Qaeda|PKK|IRA|ETA|PLO|Harvard|
Harvard University|Yale|Princeton|Stanford University|MIT|Oxford University|
Cambridge|UCLA|NYU|University of Michigan|Penn State|Notre Dame|Ohio State|Duke|
Columbia University|Berkeley"""
_TEAMS = """Manchester United|Man United|Man City|Arsenal|Chelsea|Liverpool|Tottenham|Spurs|
Everton|Newcastle|Aston Villa|Leeds|Blackburn|West Ham|Leicester|Southampton|
Sunderland|Celtic|Rangers|Aberdeen|Real Madrid|Barcelona|Barca|Atletico Madrid|
Valencia|Juventus|AC Milan|Inter|Lazio|Roma|Bayern Munich|Borussia Dortmund|Schalke|
Ajax|PSV Eindhoven|Feyenoord|Paris St Germain|Marseille|Monaco|Porto|Benfica|
Anderlecht|Galatasaray|Lakers|Los Angeles Lakers|Celtics|Bulls|Chicago Bulls|Knicks|
Heat|Miami Heat|Cavs|Rockets|San Antonio Spurs|Jazz|Utah Jazz|Magic|Pistons|
Warriors|Nets|Yankees|New York Yankees|Red Sox|Cubs|White Sox|Dodgers|Giants|Mets|
Braves|Cardinals|Orioles|Texas Rangers|Mariners|Blue Jays|Phillies|Padres|Tigers|
Indians|Twins|Cowboys|Dallas Cowboys|Patriots|Packers|Green Bay|Steelers|Eagles|
Redskins|Bears|Dolphins|Raiders|Broncos|49ers|Saints|Vikings|Jets|Bills|Colts|
Ravens|Falcons|Panthers|Penguins|Bruins|Maple Leafs|Canadiens|Flyers|Red Wings|
Blackhawks|Oilers|Avalanche|Essex|Kent|Surrey|Yorkshire|Warwickshire|Somerset|
One Direction|Paramore|The Beatles|Coldplay|Metallica|Nirvana|Green Day|Pink Floyd|
Queen|U2|ABBA|Radiohead|Linkin Park"""
_PLACES = """London|Paris|Berlin|Madrid|Rome|Vienna|Moscow|Beijing|Tokyo|Delhi|Mumbai|Sydney|
Melbourne|New York|New York City|NYC|Los Angeles|LA|L.A.|Chicago|Houston|Boston|
Seattle|San Francisco|SF|Dallas|Austin|Miami|Atlanta|Philly|Philadelphia|Phoenix|
Denver|Detroit|Vegas|Las Vegas|Portland|Washington|Washington DC|D.C.|Toronto|
Vancouver|Montreal|Mexico City|Sao Paulo|Rio|Lima|Bogota|Buenos Aires|Cairo|Lagos|
Nairobi|Johannesburg|Cape Town|Tehran|Baghdad|Kabul|Jerusalem|Gaza|West Bank|
Damascus|Beirut|Istanbul|Ankara|Athens|Warsaw|Prague|Budapest|Kiev|Minsk|Belgrade|
Sarajevo|Stockholm|Oslo|Copenhagen|Helsinki|Dublin|Edinburgh|Glasgow|Manchester|
Birmingham|Leeds|Amsterdam|Brussels|Geneva|Zurich|Milan|Naples|Lisbon|Barcelona|
Munich|Hamburg|Frankfurt|Cologne|Hong Kong|Singapore|Seoul|Bangkok|Jakarta|Manila|
Hanoi|Karachi|Islamabad|Dhaka|Colombo|Dubai|Doha|Riyadh|Europe|Asia|Africa|
South America|Middle East|America|USA|U.S.|US|United States|UK|U.K.|Britain|
Great Britain|England|Scotland|Wales|Northern Ireland|Soviet Union|Yugoslavia|
Chechnya|Bosnia|Kosovo|Kashmir|Hollywood|Brooklyn|Manhattan|Queens|the Bronx|Harlem|
Wall Street|Times Square|Central Park|Disneyland|Silicon Valley|Hyde Park|Heathrow|
JFK|Mississippi River|Thames|Mount Everest|Alps|Rhine|Mars|Atlantic|Pacific|Texas|
California|Florida|Cali|Jersey|Long Island|Bay Area|Midwest"""


def names() -> Mapping[str, Sequence[str]]:
    """Lists of names and places of many cultures, and those that English text has most."""
    from faker.providers.address.en_US import Provider as Addresses
    from faker.providers.person.en_GB import Provider as British
    from faker.providers.person.en_US import Provider as American

    first = {*American.first_names, *British.first_names, *map(str.title, lexicon("first_names"))}
    last = {*American.last_names, *British.last_names, *map(str.title, lexicon("last_names"))}
    known = {*choices(_PLACES), *Addresses.countries, *Addresses.states}
    organisations = {*choices(_COMPANIES), *choices(_BODIES), *choices(_TEAMS)}
    return {
        **faker_lists(),
        "english first": sorted(first),
        "english last": sorted(last),
        "known place": sorted({*known, *map(str.title, lexicon("cities"))}),
        "country": sorted(
            {*Addresses.countries, "US", "U.S.", "UK", "U.K.", "Iran", "Iraq", "Israel", "Syria"}
            | {"Russia", "Vietnam", "Venezuela", "Bolivia", "Britain", "Burma", "Kosovo", "Taiwan"}
            | {"Tanzania", "Libya", "Laos", "Moldova", "Macedonia", "Congo", "America", "Gaza"}
        ),
        "organisation": sorted(organisations),
    }
