"""The video domain: playing, searching, lists, channels, accounts."""

from sottovoce.corpora.synthetic.schema import Domain, Intent

VIDEO = Domain(
    name="video",
    slots={
        "actor": "artist",
        "address": "address",
        "channel": "channel",
        "character": "character",
        "cinema": "cinema",
        "city": "city",
        "contact": "person",
        "count": "count",
        "date": "date",
        "date:past": "past_date",
        "device": "device",
        "director": "artist",
        "duration": "duration",
        "email_address": "email",
        "episode": "episode",
        "episode:special": "special",
        "genre": "genre",
        "language": "language",
        "phone_number": "phone",
        "pin": "pin",
        "playlist": "playlist",
        "profile": "profile",
        "quality": "quality",
        "rating": "stars",
        "season": "season",
        "service": "service",
        "sort": "sort",
        "time": "time",
        "title": "title",
        "video_type": "format",
        "volume": "level",
        "year": "year",
    },
    parts={
        "play": "[play|put on|watch|start|start playing|show|stream|turn on|throw on|run]",
        "find": "[find|search for|look for|show me|search|look up|find me|get me|pull up]",
        "type": "[movie|film|show|{video_type}|flick|picture]",
        "types": "[movies|films|shows|series|documentaries|cartoons|stuff]",
        "where": "[on {service}|on the {device}|on my {device}|from {service}]",
        "thing": "[it|this|that|the movie|the show|the video|this one|{title}]",
        "list": "[watchlist|list|queue|{playlist} list|{playlist} playlist|favorites]",
        "when": "[{date}|at {time}|{date} at {time}|at {time} {date}]",
    },
    intents={
        "play_title": Intent(
            weight=22,
            act="""
                play {title}
                <play> {title}
                <play> {title} (<where>)
                <play> the <type> {title}
                <play> my [favorite|favourite] <type> (<where>)
                <play> the [{sort}|new] <type> {title}
                <play> {title} [with|starring] {actor}
                <play> the {sort} <type> [by|from|directed by] {director}
                <play> a {genre} <type>
                <play> (some) {genre}
                <play> some {sort} {genre} <types>
                <play> {title} in {language} (with subtitles)
                <play> [something|anything|a movie|a show] [with|starring|by] {actor}
                <play> the version of {title} from {year}
                <play> {title} from {year}
                <play> {title} on {device} (in {quality})
                <play> [something|a <type>] from {year} (<where>)
                <play> the one [with|where|about] [{actor}|{character}]
                <play> {title} for [the kids|{profile}|my {profile}]
                <play> the <type> [that|] {contact} [sent|recommended|told me about|likes]
                <play> {title} [instead|first|from the beginning|from the start|again]
                [open|go to] {service} and play {title}
                <play> {character}
                <play> {title} and then {title}
                put {title} on (the {device})
                <play> [the|my] {playlist} (playlist|list) (<where>)
                <play> {title} not {title}
            """,
            say="""
                {title}
                {title} <where>
                [i'm|we're] in the mood for (a|some) [{genre}|{title}|something {sort}]
                i [feel like|want] {title}
                the <type> {title}
                {genre} (<types>)
                the kids want (to watch) {title}
                {actor} <types>
                {service}
            """,
            ask="""
                can we watch {title} (<where>)
                do you have {title}
                how about (a) [{title}|{genre} <type>|something with {actor}]
                what about {title}
            """,
        ),
        "play_episode": Intent(
            weight=7,
            act="""
                <play> episode {episode} of {title}
                <play> season {season} episode {episode} (of {title})
                <play> {title} season {season} (episode {episode})
                <play> the [last|next|new|first|latest] episode (of {title}) (<where>)
                <play> {title} episode {episode}
                [go|skip|jump] to (season {season}) episode {episode}
                <play> all of season {season} of {title}
                [start|go back to|continue with] season {season} (of {title})
                <play> the {episode:special} of {title} (<where>)
                <play> the episode of {title} [with|where] [{character}|{actor}]
                <play> the {title} episode from {date:past}
                <play> all episodes of {title}
            """,
            say="""
                episode {episode}
                season {season} (episode {episode})
                {title} season {season} (episode {episode})
                {title} {season} {episode}
                next episode of {title}
            """,
        ),
        "play_trailer": Intent(
            weight=4,
            act="""
                <play> the trailer [for|of] {title}
                <play> the {title} [trailer|preview|teaser]
                <play> (the|some) [trailers|previews|clips] [for|of] {genre} <types>
                [find|get] me the (new) trailer [for|of] {title}
                <play> [a clip|the first scene|the last scene|bloopers] [from|of] {title}
                <play> the (new) {director} trailer
            """,
            say="""
                {title} trailer
                trailer [for|of] {title}
                trailers
            """,
            ask="""
                is there a trailer for {title} (yet)
                does {title} have a trailer
            """,
        ),
        "resume": Intent(
            weight=5,
            act="""
                resume
                [resume|continue|unpause|keep playing] (<thing>)
                [resume|continue|keep watching|pick up|finish] {title} (<where>)
                [play|start] <thing> [where i left off|from where we stopped|again]
                continue watching (<where>|{title})
                [resume|continue] what [i was|we were|{profile} was] watching ({date:past})
                go back to [{title}|what i was watching|the movie]
            """,
            say="""
                [play|continue|keep going|go on|resume]
                okay [go|play]
                i wasn't finished with {title}
            """,
        ),
        "pause": Intent(
            weight=6,
            do="""
                pause
                [pause|stop|freeze|hold] (<thing>)
                pause (<thing>) for {duration}
                [stop|turn off|exit|quit|close] [{title}|the {device}|{service}|the movie|it]
                turn [it|the {device}|this] off (at {time}|in {duration})
                [stop|quit] playing (<where>)
                stop <thing> at {time}
                [set|start] a sleep timer for {duration}
            """,
            say="""
                [pause|stop|wait|hold on|enough|stop it|shut up|quiet]
                [stop|pause] {title}
                i'm done (watching) (with {title})
            """,
        ),
        "skip": Intent(
            weight=6,
            act="""
                next
                [skip|next|go to the next one|next episode|skip this]
                [skip|go|fast forward|jump] (ahead|forward) {duration}
                [go back|rewind|back up|skip back] {duration}
                [rewind|fast forward|skip] (<thing>)
                [skip|jump over] the [intro|credits|recap|ads|commercials|song]
                [go|skip|jump|fast forward|rewind] to [the beginning|the end|{time}|{duration} in]
                [restart|start over] (<thing>)
                play <thing> from the [beginning|start|top]
                [skip|go] to the part [with|where|about] [{character}|{actor}|they sing]
                [play|go to] the [next|previous|last] [episode|one|video|song|chapter]
            """,
            say="""
                [next|back|skip|forward|again|next one|previous|go back]
                {duration} [back|forward|ahead]
                next episode
                i missed that (go back {duration})
            """,
        ),
        "search_title": Intent(
            weight=10,
            act="""
                <find> {title}
                <find> (some) {genre} <types>
                <find> <types> [with|starring|by|from] {actor}
                <find> {sort} <types> (<where>)
                <find> {sort} {genre} <types> (from {year})
                <find> <types> directed by {director} (<where>)
                <find> <types> from {year}
                <find> {title} <where>
                <find> [the|that] <type> [with|where|about] [{character}|{actor}]
                <find> {language} <types> (with {actor})
                <find> {actor}
                <find> <types> about [{character}|{city}|a {genre}]
                <find> [everything|all <types>|anything] [with|by] [{actor}|{director}]
                <find> [kids|family] <types> in {language}
                <find> <types> [shorter than|under|longer than] {duration}
                [search|open|look on] {service} for [{title}|{genre} <types>|{actor}]
                <find> <types> rated {rating} or [better|higher|more]
                <find> <types> in {quality} <where>
            """,
            ask="""
                [where can i watch|where is|what's|is] {title} [streaming|on|playing]
                is {title} on {service}
                [what|which] <types> [has {actor} been|is {actor}|was {actor}] in
                what else has {director} [made|directed|done]
                what's [new|good|popular|trending|on] <where>
                do you have (any) [{sort}|{genre}|{language}] <types>
                what's (that|the) <type> with {actor} (and {actor}) called
                are there (any) {sort} {genre} <types> (<where>)
            """,
            say="""
                <types> with {actor}
                {sort} {genre} <types>
                i'm looking for {title}
                {director} <types>
                {title}
            """,
        ),
        "recommend": Intent(
            weight=7,
            act="""
                [recommend|suggest|find|pick] (me) [something|a movie|a show|a {genre} <type>]
                [recommend|suggest] (me) (some) {sort} {genre} <types>
                [recommend|suggest|find] (me) [something|<types>] like {title}
                [surprise me|pick something|choose for me] (<where>)
                [recommend|suggest] <types> for [{profile}|the kids|{contact}|date night]
                [suggest|find] (me) something to watch with [{contact}|my {profile}|the kids]
                [show|find] me [something|anything] {sort} (<where>)
                recommend (me) something [with|by] [{actor}|{director}]
            """,
            ask="""
                what should [i|we] watch ({date}|next|after {title})
                what's a {sort} {genre} <type>
                what's [good|worth watching] <where>
                [is|was] {title} [any good|good|scary|worth watching|okay for kids]
                what do people [who like {title}|like {contact}] watch
                what would {profile} like
                anything [new|good|{sort}] (<where>|with {actor})
            """,
            say="""
                something {sort}
                i [don't know|have no idea] what to watch
                [i'm|we're] bored
                i (really) [liked|loved|enjoyed] {title}
                something like {title} but {sort}
            """,
        ),
        "edit_watchlist": Intent(
            weight=7,
            act="""
                add {title} to my <list>
                [add|save|put] <thing> [to|on|in] my <list>
                [remove|delete|take] {title} [from|off] my <list>
                [add|save] {title} (for later|to {playlist}|for {profile})
                [add|put] the new {director} <type> [to|on] my <list>
                [remove|delete|take] <thing> [from|off] (the|my) <list>
                [make|create|start] a (new) [list|playlist] called {playlist}
                add {title} to [{profile}'s|{contact}'s] <list>
                [add|save] all {actor} <types> to {playlist}
                [clear|empty|delete] my <list>
                [like|favorite|bookmark] <thing>
                remind me to watch {title} (<when>)
            """,
            say="""
                {title} for later
                save [it|this|{title}] for later
                i want to watch {title} later
                put {title} on my list
                don't let me forget {title}
            """,
        ),
        "show_watchlist": Intent(
            weight=4,
            act="""
                [show|open|go to|see|read] (me) my <list>
                [show|list] (me) what's [in|on] my <list>
                [show|see] (me) my [history|recordings|downloads|rentals] (from {date:past})
                [show|open] [{profile}'s|{contact}'s] <list>
                show (me) what [i|{profile}] watched ({date:past})
            """,
            ask="""
                what's [on|in] my <list>
                what did [i|we|{profile}] [watch|see] ({date:past})
                have i [seen|watched|finished] {title}
                is {title} [on|in] my <list>
                how many [shows|movies] are on my <list>
            """,
            say="""
                my <list>
                {playlist}
                recently watched
            """,
        ),
        "rate_title": Intent(
            weight=4,
            act="""
                rate {title} {rating}
                [rate|give] <thing> {rating}
                [give|rate] the (last) <type> {rating}
                [give|rate] (season {season} of) {title} {rating}
                [like|dislike] <thing>
                tell {contact} [i loved|i hated|to watch|i gave {rating} to] {title}
                write a review of {title}
            """,
            say="""
                {title} [was|is] [great|terrible|boring|amazing|so {sort}]
                {rating} for {title}
                {rating}
                i [loved|hated|liked|didn't like] {title}
                thumbs [up|down] (for {title})
            """,
        ),
        "title_info": Intent(
            weight=9,
            ask="""
                who [directed|made|wrote|is in|stars in] {title}
                who plays {character} (in {title})
                what is {title} about
                when did {title} come out
                how long is [{title}|this|this movie|season {season} of {title}]
                what's [this|that|this movie|that song] [called|about|from]
                who is [that|this] (actor|guy|actress|woman)
                how old is {actor}
                [is|was] {actor} in {title}
                how many [seasons|episodes] [does|of] {title} (have) (are there)
                [what|which] <type> did {director} [make|direct] in {year}
                is there a [sequel|part two|season {season}|remake] (to|of) {title}
                what [rating|score|reviews] did {title} get
                what year [is|was] {title} (from|made)
                where was {title} [filmed|shot] (in {city})
                when does (season {season} of) {title} [start|come out|return]
                what language is {title} in
            """,
            act="""
                [tell me about|give me details on|read the plot of] [{title}|{actor}|this movie]
                [show|tell] me the cast of {title}
                [show|tell] (me) who plays {character}
            """,
            say="""
                cast of {title}
                {title} [cast|rating|reviews|plot]
                {actor}
            """,
        ),
        "showtimes": Intent(
            weight=5,
            act="""
                <find> showtimes for {title} (at {cinema}) ({date})
                [buy|book|get|reserve] (me) tickets [for|to] {title} (at {cinema}) (<when>)
                [find|show] (me) [cinemas|theaters] (in {city}|near {address}) (showing {title})
                [book|get] {count} [seats|tickets] for {title} ({date}) (at {cinema})
                send the {title} tickets to [{phone_number}|{email_address}|{contact}]
                find a cinema near {address}
                invite {contact} to (see) {title} <when>
            """,
            ask="""
                when is {title} [playing|on|showing] (at {cinema}|in {city}) ({date})
                what's [playing|showing|on] at {cinema} ({date}|at {time})
                what time is {title} (on) ({date}|at {cinema})
                is {title} [playing|showing|still] (in {city}|near {address}|at {cinema}) ({date})
                what movies are playing [near me|in {city}|{date}|near {address}]
                where is {cinema}
            """,
            say="""
                {cinema} showtimes ({date})
                {count} tickets for {title} (<when>)
                {title} at {cinema} ({date})
            """,
        ),
        "buy_title": Intent(
            weight=4,
            act="""
                [buy|rent|purchase|order] {title} (<where>)
                [buy|rent] the {sort} [{genre}|{director}] <type>
                [rent|buy|get] {title} in {quality}
                [rent|buy] season {season} of {title}
                [buy|rent|gift] {title} for {contact}
                [cancel|renew|start|pay for] my {service} (subscription) ({date})
                [download|save] {title} (to my {device}) (in {quality})
                buy {title} with pin {pin}
            """,
            ask="""
                how much is [{title}|{service}|it to rent {title}]
                can i [rent|buy|download] {title} (<where>)
                [is|was] {title} free (<where>)
                when does my {service} [subscription|trial] end
            """,
            say="""
                i'll take {title} (in {quality})
                rent it
                buy (it|{title})
            """,
        ),
        "set_volume": Intent(
            weight=6,
            do="""
                [turn|set] the volume [up|down|to {volume}]
                [turn it|volume] [up|down] (to {volume}|by {volume})
                volume {volume}
                set (the) (volume) (on the {device}) to {volume}
                [mute|unmute] (the {device}|<thing>)
                make it [louder|quieter|{volume}]
                [raise|lower|increase|decrease] the [volume|sound|brightness] (by {volume})
                [set|change] the brightness to {volume}
            """,
            say="""
                [louder|quieter|mute|volume up|volume down|too loud|unmute]
                i can't hear (<thing>|{actor}|anything)
                {volume}
                it's too [loud|quiet|dark] (on the {device})
            """,
        ),
        "set_subtitles": Intent(
            weight=5,
            do="""
                [turn on|turn off|show|hide|enable|disable] (the) (subtitles|captions)
                [turn on|show|add] {language} subtitles (for {title})
                [change|switch|set] the [language|audio|subtitles] to {language}
                [play|show|dub] <thing> in {language}
                subtitles [on|off|in {language}]
                [change|set|switch] (the) (picture|video) quality to {quality}
                [play|show] <thing> in {quality}
                [switch|change] to {quality}
                turn on [audio description|closed captions|parental controls] (for {profile})
            """,
            say="""
                {language}
                (in) {language} (subtitles|audio)
                i [can't understand|don't speak] {language}
                {quality}
            """,
            ask="""
                is {title} [available|] in {language}
                does {title} have {language} (subtitles|audio)
                is this in {quality}
            """,
        ),
        "change_channel": Intent(
            weight=6,
            act="""
                [go to|switch to|change to|turn to|put on|tune to] {channel}
                [change|switch] the channel (to {channel})
                watch {channel} (on the {device})
                <play> {channel} (<where>)
                <play> the [news|game|match|weather] (on {channel})
                channel [up|down]
                go back to [{channel}|the last channel]
                switch (the {device}) (to|from) {channel}
            """,
            say="""
                {channel}
                the [news|game] on {channel}
            """,
            ask="""
                what's on {channel} (<when>)
                what channel is [{title}|the game|the news|{channel}] on
                what's on (tv|next|{date}) (at {time})
            """,
        ),
        "record": Intent(
            weight=4,
            do="""
                record {title} (<when>)
                record {title} on {channel} (<when>)
                [record|tape|save] [every|all|new] (episode|episodes) (of) {title}
                [set|schedule] a recording of {title} (<when>) (on {channel})
                [stop|cancel|delete] (recording|the recording of) {title}
                record {channel} [from {time} to {time}|for {duration}|at {time}]
                record the [game|news|{genre} <type>|show] (on {channel}) (<when>)
                remind me when {title} [is on|starts|comes on] ({date})
            """,
            ask="""
                did you record {title} ({date:past})
                when is {title} on (next|{channel})
                what's recording {date}
            """,
            say="""
                record (this|it)
                i'm going to miss {title} {date}
            """,
        ),
        "cast": Intent(
            weight=5,
            act="""
                <play> <thing> on the {device}
                [cast|send|move|mirror|throw] <thing> to (the|my) {device}
                [move|switch] (<thing>) to the {device}
                [show|open] {service} on (the|my) {device}
                [turn on|connect to|switch on] the {device}
                [cast|mirror] my {device} to the {device}
                [continue|finish] {title} on (the|my) {device}
                open {service}
            """,
            say="""
                on the {device}
                not here on the {device}
                [{device}|{service}]
            """,
        ),
        "switch_profile": Intent(
            weight=4,
            act="""
                [switch|change|go] to {profile}'s (profile|account)
                [switch|change] (the) (profile|user|account) to {profile}
                [use|open|log into] [{profile}'s|my|the {profile}] [profile|account]
                [add|create|make] a [profile|user|account] for {profile}
                [delete|remove] {profile}'s profile (from {service})
                [set|change] [{profile}'s|my|the] pin (to {pin})
                [lock|unlock] {profile}'s profile (with {pin})
                log in (to {service}) (with|as) [{email_address}|{profile}]
            """,
            say="""
                it's {profile}
                [i'm|this is] {profile} [not|] {profile}
                (my) pin is {pin}
                {profile} is watching (now)
                {pin}
            """,
            ask="""
                who is [watching|logged in] (on the {device})
                is this {profile}'s profile
            """,
        ),
        "share_title": Intent(
            weight=4,
            act="""
                [share|send] <thing> [with|to] {contact}
                [send|text|email] {contact} [a link to|the trailer for|] {title}
                recommend {title} to {contact}
                tell {contact} [about|to watch] {title} (on {service})
                [start|host] a watch party (for {title}) with {contact} (<when>)
                [share|send] my <list> [with|to] [{contact}|{email_address}|{phone_number}]
                invite {contact} to watch {title} (with me) (<when>)
                watch {title} with {contact}
            """,
            say="""
                {contact} would [love|like|hate] {title}
                share (this) with {contact}
            """,
        ),
        "update_account": Intent(
            weight=3,
            act="""
                [change|update|set] my (account) email (on {service}) to {email_address}
                [change|update] my [billing|home] address to {address}
                [change|update|add] my (phone) number (to) {phone_number}
                [send|text] (me) the [code|receipt|bill] (to) [{phone_number}|{email_address}]
                send the [disc|receipt|bill|remote] to {address}
                [add|invite] {contact} to my {service} (account) at {email_address}
            """,
            say="""
                my [new|] email is {email_address}
                my [new|billing] address is {address}
                my (phone) number is {phone_number}
                i moved to [{address}|{city}]
                the account is under {contact} at {address}
            """,
            ask="""
                what email do i use for {service}
                who pays for {service} {contact} or me
            """,
        ),
    },
)
