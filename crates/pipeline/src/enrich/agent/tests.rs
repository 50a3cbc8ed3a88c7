//! User agents of real clients, and random bytes.

use proptest::prelude::*;

use super::*;

/// Each row has the platform or `-`, optionally `bot`, then `|` and the user agent.
fn check(rows: &str) {
    for row in rows.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let (expected, user_agent) = row.split_once('|').expect("expected result | text");
        let device = device(user_agent.trim());
        let platform = device.platform.map_or("-", Platform::label);
        let found = if device.bot { format!("{platform} bot") } else { platform.to_owned() };
        assert_eq!(found, expected.trim(), "{user_agent}");
    }
}

#[test]
fn browsers_name_their_platform() {
    check(
        "windows    | Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36
         windows    | Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:127.0) Gecko/20100101 Firefox/127.0
         windows    | Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0
         macos      | Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15
         ios        | Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1
         ios        | Mozilla/5.0 (iPad; CPU OS 16_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/126.0.6478.35 Mobile/15E148 Safari/604.1
         ios        | Mozilla/5.0 (Macintosh; Intel Mac OS X 10_13_5) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/102 Version/11.1.1 Safari/605.1.15
         android    | Mozilla/5.0 (Linux; Android 14; SM-S918B) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36
         android    | Mozilla/5.0 (Linux; Android 12; Quest 3) AppleWebKit/537.36 (KHTML, like Gecko) OculusBrowser/33.0 Chrome/126.0.0.0 VR Safari/537.36
         android    | Mozilla/5.0 (Linux; U; en-us; KFTT Build/IML74K) AppleWebKit/535.19 (KHTML, like Gecko) Silk/2.0 Safari/535.19
         android    | Mozilla/5.0 (Linux; Android 9; CUBOT_X19) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/88.0.4324.93 Mobile Safari/537.36
         android    | Mozilla/5.0 (Linux; Android 10; CUBOT) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/88.0.4324.93 Mobile Safari/537.36
         linux      | Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0
         linux      | Mozilla/5.0 (X11; Linux i686 (x86_64); rv:2.0b4) Gecko/20100818 Firefox/4.0b4
         chromeos   | Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36
         other      | Mozilla/5.0 (X11; FreeBSD amd64; rv:122.0) Gecko/20100101 Firefox/122.0
         other      | Mozilla/5.0 (Windows Phone 10.0; Android 6.0.1; Microsoft; Lumia 950) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/52.0.2743.116 Mobile Safari/537.36 Edge/15.15063
         other      | Mozilla/5.0 (Mobile; Nokia_8110_4G; rv:48.0) Gecko/48.0 Firefox/48.0 KAIOS/2.5",
    );
}

#[test]
fn consoles_and_televisions_take_precedence_over_their_system() {
    check(
        "xbox        | Mozilla/5.0 (Windows NT 10.0; Win64; x64; Xbox; Xbox Series X) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/102.0.5005.63 Safari/537.36 Edge/44.18363.8131
         playstation | Mozilla/5.0 (PlayStation; PlayStation 5/6.50) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.0 Safari/605.1.15
         playstation | Mozilla/5.0 (PlayStation Vita 3.74) AppleWebKit/537.73 (KHTML, like Gecko) Silk/3.2
         nintendo    | Mozilla/5.0 (Nintendo Switch; WifiWebAuthApplet) AppleWebKit/606.4 (KHTML, like Gecko) NF/6.0.1.15.4 NintendoBrowser/5.1.0.20393
         tv          | Mozilla/5.0 (SMART-TV; Linux; Tizen 6.0) AppleWebKit/537.36 (KHTML, like Gecko) Version/6.0 TV Safari/537.36
         tv          | Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/87.0.4280.88 Safari/537.36 WebAppManager
         tv          | Mozilla/5.0 (Linux; Android 9; AFTKA Build/PS7285) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/88.0.4324.181 Mobile Safari/537.36
         tv          | Mozilla/5.0 (Linux; Android 9; BRAVIA 4K UR2) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/83.0.4103.101 Safari/537.36
         tv          | AppleTV11,1/11.1
         tv          | Roku/DVP-12.5 (12.5.0.4178-29)",
    );
}

#[test]
fn engines_and_libraries_are_not_bots() {
    check(
        "-       | UnityPlayer/2021.3.16f1 (UnityWebRequest/1.0, libcurl/7.84.0-DEV)
         windows | GodotEngine/4.2.2.stable.official (Windows)
         ios     | GodotEngine/4.2.2.stable.official (iOS)
         windows | Letters/++UE5+Release-5.3-CL-29314046 Windows/10.0.22631.1.256.64bit
         ios     | Letters/++UE5+Release-5.3-CL-29314046 IOS/17.4.1
         android | Dalvik/2.1.0 (Linux; U; Android 13; Pixel 7 Build/TQ3A.230805.001)
         ios     | SpiderSolitaire/3.2 CFNetwork/1410.0.3 Darwin/22.6.0
         macos   | Letters/12 CFNetwork/1410.0.3 Darwin/22.6.0 (x86_64)
         ios     | Letters/5.1 (com.example.letters; build:12; iOS 16.0.0) Alamofire/5.6.4
         windows | RobotCrawlers/++UE4+Release-4.27 Windows/10.0.19045 (Preview)
         linux   | Valve/Steam HTTP Client 1.0 (440; Linux)
         -       | Robots of the Deep 1.4
         -       | okhttp/4.12.0
         -       | axios/1.7.2
         -       | curl/8.5.0
         -       | python-requests/2.31.0
         -       | Go-http-client/2.0
         -       | node-fetch/1.0 (+https://github.com/bitinn/node-fetch)
         -       | ",
    );
}

#[test]
fn crawlers_monitors_and_unattended_browsers_are_bots() {
    check(
        "other bot   | Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)
         android bot | Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)
         - bot       | Googlebot-Image/1.0
         other bot   | Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)
         other bot   | Mozilla/5.0 (compatible; Baiduspider/2.0; +http://www.baidu.com/search/spider.html)
         macos bot   | Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)
         other bot   | Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)
         - bot       | facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)
         - bot       | Twitterbot/1.0
         other bot   | Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)
         - bot       | TelegramBot (like TwitterBot)
         - bot       | WhatsApp/2.23.20.0
         other bot   | Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)
         other bot   | Mozilla/5.0 (compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)
         - bot       | Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)
         - bot       | kube-probe/1.29
         - bot       | ELB-HealthChecker/2.0
         linux bot   | Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/126.0.0.0 Safari/537.36
         linux bot   | Mozilla/5.0 (Unknown; Linux x86_64) AppleWebKit/538.1 (KHTML, like Gecko) PhantomJS/2.1.1 Safari/538.1
         android bot | Mozilla/5.0 (Linux; Android 11; moto g power (2022)) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/119.0.0.0 Mobile Safari/537.36 Chrome-Lighthouse
         - bot       | Scrapy/2.11.0 (+https://scrapy.org)",
    );
}

#[test]
fn in_app_browsers_of_social_networks_are_not_bots() {
    check(
        "ios     | Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/21E219 [FBAN/FBIOS;FBAV/461.0.0.33;FBDV/iPhone15,2]
         android | Mozilla/5.0 (Linux; Android 13; SM-A536B; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/125.0.0.0 Mobile Safari/537.36 Instagram 334.0.0.42.95
         android | Mozilla/5.0 (Linux; Android 4.4.2; LG-F350S) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/30.0.0.0 Mobile Safari/537.36 NAVER(inapp; search; 270; 5.3.2)",
    );
}

#[test]
fn a_long_user_agent_is_read_up_to_the_limit() {
    let padded = |padding: usize| device(&format!("{}Windows", " ".repeat(padding))).platform;
    assert_eq!(padded(AGENT_BYTES_MAX - 7), Some(Platform::Windows));
    assert_eq!(padded(AGENT_BYTES_MAX - 6), None);
    assert_eq!(device(&"é".repeat(AGENT_BYTES_MAX)), Device::default());
}

#[test]
fn keywords_are_lower_case_and_unique() {
    let mut words: Vec<_> =
        KEYWORDS.iter().flat_map(|(mark, words)| words.iter().map(|word| (word, *mark as u8))).collect();
    assert!(words.iter().all(|(word, _)| **word == word.to_lowercase()));
    let count = words.len();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), count);
}

proptest! {
    #[test]
    fn any_bytes_are_accepted(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        device(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_cached_result_equals_the_computed_one(picks in prop::collection::vec(0u32..2_000, 1..400)) {
        for pick in picks {
            let names = ["Windows", "Android", "Googlebot/2.1", "PlayStation", ""];
            let text = format!("{}{}", names[pick as usize % names.len()], pick / 5);
            prop_assert_eq!(device(&text), read(text.as_bytes()), "{}", text);
        }
    }
}
