"""Sentences of our own that the adapter learns from: the kinds of text that public sets lack.

`{PER}`, `{LOC}`, `{ORG}`, `{DATE}`, `{TIME}` and `{ADDRESS}` are private values; `{TITLE}`, `{N}`,
`{WORK}`, `{GENRE}`, `{NATION}` and `{HANDLE}` are filled in, and stay public.
"""

TWEETS = """
RT @{HANDLE}: {PER} is so funny lol
omg {PER} is trending again
going 2 {LOC} w/ {PER} tmrw!!
just landed in {LOC} so tired
@{HANDLE} @{HANDLE} u seen {PER}'s new vid?
cant believe {PER} left {ORG} smh
{ORG} customer service is the WORST
who else is watching {ORG} vs {ORG} tonight
{LOC} u have been amazing
Happy bday {PER}!! luv u
{PER} just followed me on twitter
I'm at {ORG} ({LOC}) http://t.co/{HANDLE}
so excited to see {PER} live in {LOC} on {DATE}
{PER} - {WORK} is my jam rn
listening to {PER} all day
traffic in {LOC} is crazy this morning
Flight from {LOC} to {LOC} delayed again thanks {ORG}
#{LOC} is beautiful today
#{PER} needs to stop
Got my new phone from {ORG} today
{PER} and {PER} are the cutest couple
is {PER} really dating {PER}??
good luck to {ORG} in the finals
{ORG} announces new office in {LOC}
BREAKING: {PER} arrested in {LOC}
praying for everyone in {LOC}
my teacher mr {PER} is the best
anyone going to the {PER} concert {DATE}
miss u {PER} come back to {LOC}
lol @{HANDLE} thats what {PER} said
watching {WORK} with {PER} and pizza
RIP {PER}
{PER} for president
fuck {ORG} i want a refund
shout out to {PER} for the ride
Had a great time at {ORG} w/ @{HANDLE} & {PER}
{LOC} bound!
Finally home from {LOC}
ily {PER}
{PER} > {PER}
Photo: {PER} at {ORG}, {LOC} http://bit.ly/{HANDLE}
New post: {PER} signs for {ORG}
{ORG} fans where u at
why is {PER} so hot
Team {PER} or team {PER}?
{PER} u there?
"""

FILMS = """
what movies has {PER} been in
find me a {GENRE} with {PER} and {PER}
who plays opposite {PER} in {WORK}
did {PER} direct any {GENRE} films
list the {GENRE} movies directed by {PER}
which {PER} film won the most awards
is there a {GENRE} starring {PER} from the nineties
are there any {PER} movies rated pg
was {PER} in {WORK}
what was the first film that {PER} made
in what year did {PER} and {PER} make a movie together
has {PER} ever worked with {PER}
show me the trailer for the {PER} {GENRE} from {N}
name a {GENRE} featuring {PER}
i want to see a {PER} movie about the war
what is the plot of the {GENRE} by {PER}
a {GENRE} that {PER} directed and {PER} acted in
best rated {PER} films
what {GENRE} movies were made by {PER} in the 1970s
find {WORK} with {PER}
i am looking for a {GENRE} about a dog
what is the rating of {WORK}
show me a {GENRE} with a sad ending
who directed {WORK}
play the trailer of {WORK}
what is a good {GENRE} from the 1980s about space
which movie has the song {WORK}
play some {PER}
put on the new album by {PER}
play {WORK} by {PER}
add {PER} to my playlist
i want to hear the best of {PER} on the speaker
songs like the ones of {PER}
who sings {WORK}
does {PER} have a new record
"""

NEWS = """
{LOC} {DATE}
{LOC} {N} {LOC} {N}
{ORG} {N} {ORG} {N}
{PER} ({LOC}) beat {PER} ({LOC}) {N}-{N} {N}-{N}
{N}. {PER} ({LOC}) {N}.{N} seconds
{N}. {PER}, {LOC}, {N} points
{PER} {N} - {N} {PER}
SOCCER - {LOC} BEAT {LOC} IN CUP MATCH.
TENNIS - {PER} THROUGH TO SECOND ROUND.
{LOC} AT {LOC}
{ORG} at {ORG}
Scorers: {PER} ({N}), {PER} ({N}, {N}), {PER} {N}
{ORG}: {PER}, {PER}, {PER} ({PER} {N})
c {PER} b {PER} {N}
Standings: {ORG} {N} {N} {N} {N}
{PER}, the {NATION} champion, lost to {PER} of {LOC}.
{ORG} said on {DATE} it had agreed to buy {ORG} for {N} million dollars.
{ORG} shares fell {N} percent in {LOC} on {DATE}.
The {NATION} foreign minister, {PER}, arrived in {LOC} for talks with {PER}.
{PER}, a spokesman for {ORG}, said the {NATION} troops had left {LOC}.
{LOC} and {LOC} signed a treaty, {ORG} reported.
{LOC} defeated {LOC} {N}-{N} in {LOC}.
Police in {LOC} said {PER}, {N}, was found near {LOC}.
{LOC} newspapers: {ORG} reports that {LOC} will not sign.
-- {LOC} newsroom {N} {N}
-- {PER}, {LOC}
Striker {PER} moved from {ORG} to {ORG}.
{PER} ( {ORG} ) won in {N} minutes
The {NATION} team trains in {LOC} with coach {PER}.
"""

LETTERS = """
Pt {PER}, {N} y/o male, presents with chest pain. Seen by Dr {PER} at {ORG}.
The patient, {TITLE} {PER}, was referred by Dr. {PER}.
{TITLE} {PER} was discharged on {DATE} and will see {TITLE} {PER} in {LOC}.
Spoke to daughter {PER} by phone. Lives with husband {PER} in {LOC}.
Allergies: none. Next of kin: {PER}. GP: Dr {PER}, {ADDRESS}.
hi this is {PER} calling about my bill i live at {ADDRESS}
okay {PER} can you confirm your address for me it is {ADDRESS}
Please ship it to {PER}, {ADDRESS}.
Our office is at {ADDRESS}.
{PER}
{ADDRESS}
Home address: {ADDRESS}
I moved from {ADDRESS} to {ADDRESS} on {DATE}.
billing address {ADDRESS}
This agreement is made on {DATE} between {PER} of {LOC} and {ORG}.
{PER} (the "Tenant") and {ORG} (the "Landlord") agree as follows.
IN WITNESS WHEREOF, {PER} has signed in {LOC}.
The plaintiff, {PER}, sued {ORG} in {LOC}.
Hi {PER}, can we move the call to {TIME}? Cheers, {PER}
hey {PER} are you free {DATE}
Agent: Thank you for calling {ORG}, my name is {PER}. Customer: hi, it's {PER}
{PER}: where are you? {PER}: almost there
[{TIME}] {PER}: ok see you
my boss {PER} is on leave till {DATE}
I met your colleagues {PER} and {PER} at the {ORG} booth.
my husband's name is {PER} and our kids are {PER} and {PER}
Attn: {PER}, {ORG}, {ADDRESS}
cc: {PER}; {PER}; {PER}
On {DATE}, {PER} wrote:
Regards {PER} {ORG} {ADDRESS}
{PER}, PhD, {ORG}, {LOC}
Passport holder: {PER}, born {DATE} in {LOC}
{ORG} hired {PER} from {LOC}.
She studied at {ORG} and now teaches in {LOC}.
We had dinner at {ORG} in {LOC} and {PER} paid.
I bought it at {ORG} near {LOC}.
Has anyone used {ORG} in {LOC}? Ask for {PER}, she is great.
{ORG} did a wonderful job on our roof, thanks {PER}!
i work for {ORG} in {LOC} with {PER}
{PER} from {ORG} called at {TIME}
um {PER} uh could you like send the report to {PER}
so {PER} and i were thinking we could go to {LOC} {DATE}
well {PER} mentioned that {ORG} wants it by {DATE}
i think {PER}'s point was that we should start with the design
as {PER} said it depends
{PER} do you want to go next
"""

PUBLIC = """
Can you open the window and let some air in
thanks so much for your help today
I would like to cancel my order please
the battery is empty and the remote control does not work
what time do you close
the patient is stable and was given fluids
No known allergies. Continue current medication.
the buttons should be bigger and the case should be made of rubber
so we could use uh voice recognition or a touch screen
lol that is so true
i am so tired of this weather
good morning everyone have a great day
omg i love this song so much
follow me back please
Can someone explain how this works?
I have been a {NATION} citizen for {N} years and speak {NATION} at home.
i'd like {NATION} food tonight
The new phone has a {N} inch screen.
How do I install Python on Windows?
I think the I P address is wrong so the D H C P server is down
the feature vector is normalised by the mean and variance
um yeah so the mixture of gaussians is trained with E M
i'll have the data ready and then we can run the recognizer again
is that a good restaurant with outdoor seating
i need a one way ticket and a window seat
would you like me to book it for you
please confirm the following details
your reservation has been made is there anything else
it is a {GENRE} and it has {N} stars
Section {N}. The Borrower shall pay the Lender all costs under this Agreement.
Title: Vice President
WHEREAS the Company and the Bank have agreed to amend the Loan Documents
See Exhibit A and Schedule {N} attached hereto.
The Committee will vote on the Bill next.
He is a Catholic priest and she is a Muslim.
Merry Christmas and a Happy New Year!
STOP SHOUTING AT ME
WHAT ARE YOU DOING TONIGHT
watching {WORK} again
have you read {WORK}
"""

WORKS = """the long road|midnight train|a fine mess|silver river|the last summer|red dust|broken
wings|dance with me|the quiet house|shadow of a doubt|one more night|winter songs|lost and found|the
glass tower|heart of stone|blue monday morning|the great escape|little things|never say goodbye|the
hunt|sweet surrender|big fish small pond|under the stars|the silent witness|call me|wild horses|the
kingdom|star force|the perfect day|home again"""
GENRES = """comedy|drama|thriller|horror film|western|romantic comedy|science fiction movie|musical|
documentary|war film|action movie|cartoon|mystery|animated film|biopic|film|movie|picture"""
NATIONS = """American|British|German|French|Italian|Spanish|Mexican|Chinese|Japanese|Indian|Russian|
Iranian|Turkish|Polish|Greek|Dutch|Irish|Swedish|Australian|Canadian|Brazilian|Thai|Korean|Israeli|
Palestinian|Pakistani|Nigerian|Egyptian|Swiss|Austrian|Scottish|Welsh|Catholic|Muslim|Jewish"""
DATES = """Monday|tuesday|Wednesday|March 3|March 3rd, 2019|5 May 2021|next friday|12/03/2019|
1996-08-27|the 4th of July|yesterday|tomorrow|last Sunday|Sat|Sept 12|the twenty first of june|
10th of December 1987|Aug. 14|this weekend|january|spring 2014|2 Feb"""
TIMES = """3 pm|half past two|10:30|noon|seven in the morning|5pm|quarter to nine|18:45|
eleven o'clock|9.30 am|midnight|two thirty"""
TITLES = """Mr.|Mrs.|Ms.|Dr.|Prof.|Mr|Mrs|Miss|Sir|Professor|Doctor|dr|mr|mrs|President|Senator|
Judge|Captain|Officer|Coach|aunt|uncle"""


def choices(text: str) -> tuple[str, ...]:
    """Entries between bars.

    >>> choices("a b|c")
    ('a b', 'c')
    """
    return tuple(entry.strip() for entry in " ".join(text.split()).split("|"))


def lines(text: str) -> tuple[str, ...]:
    """The lines of a text that are not empty."""
    return tuple(line for line in text.splitlines() if line)
